-- Keys that plans refer to, each encrypted with a key that is not in this database. Those of the
-- tenant '' are for all tenants.

CREATE TABLE secrets (
    tenant_id   TEXT NOT NULL,
    name        TEXT NOT NULL,
    sealed      TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
