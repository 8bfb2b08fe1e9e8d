"""What is taken of the settings of the user's package managers, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_sandbox.network.destinations import registries
from amplifier_sandbox.network.package_settings import PackageSettings, package_settings

# The machine's own settings of pip are left out by it.
NO_FILES = {"PIP_CONFIG_FILE": "/dev/null"}


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def corporate(settings: PackageSettings) -> list[str]:
    """Return the registries that are not public ones."""
    return [str(each) for each in registries(settings) if each.host.endswith(".corp.example")]


def test_the_indexes_are_those_of_the_users_files(tmp_path: Path) -> None:
    write(tmp_path / ".npmrc", "registry=http://npm.corp.example:4873/\n")
    write(
        tmp_path / ".config/pip/pip.conf",
        "[global]\nindex-url = https://pip.corp.example/simple\ntrusted-host = pip.corp.example\n"
        "extra-index-url =\n    https://more.corp.example/simple\n    file:///srv/simple\n",
    )
    write(
        tmp_path / ".config/uv/uv.toml",
        '[[index]]\nurl = "https://uv.corp.example/simple"\ndefault = true\n'
        '[[index]]\nname = "torch"\nurl = "https://torch.corp.example/whl"\n',
    )
    write(
        tmp_path / ".cargo/config.toml",
        '[registries.my-own]\nindex = "sparse+https://cargo.corp.example/index/"\n',
    )
    write(
        tmp_path / ".config/go/env",
        "GOPROXY=https://go.corp.example|https://other.corp.example,direct\nGOPRIVATE=*.corp\n",
    )

    settings = package_settings({}, tmp_path)

    assert settings.indexes == {
        "CARGO_REGISTRIES_MY_OWN_INDEX": "sparse+https://cargo.corp.example/index/",
        "GOPROXY": "https://go.corp.example|https://other.corp.example,direct",
        "PIP_EXTRA_INDEX_URL": "https://more.corp.example/simple",
        "PIP_INDEX_URL": "https://pip.corp.example/simple",
        "UV_DEFAULT_INDEX": "https://uv.corp.example/simple",
        "UV_INDEX": "torch=https://torch.corp.example/whl",
        "npm_config_registry": "http://npm.corp.example:4873/",
    }
    assert settings.others == {"GOPRIVATE": "*.corp", "PIP_TRUSTED_HOST": "pip.corp.example"}
    assert corporate(settings) == [
        "cargo.corp.example",
        "go.corp.example",
        "more.corp.example",
        "npm.corp.example:4873",
        "other.corp.example",
        "pip.corp.example",
        "torch.corp.example",
        "uv.corp.example",
    ]


@pytest.mark.parametrize(
    ("name", "passed_on_as"),
    [
        ("CARGO_REGISTRIES_LOCAL_INDEX", "CARGO_REGISTRIES_LOCAL_INDEX"),
        ("GOPROXY", "GOPROXY"),
        ("NPM_CONFIG_REGISTRY", "npm_config_registry"),
        ("PIP_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
        ("PIP_INDEX_URL", "PIP_INDEX_URL"),
        ("UV_DEFAULT_INDEX", "UV_DEFAULT_INDEX"),
        ("UV_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"),
        ("UV_INDEX", "UV_INDEX"),
        ("UV_INDEX_URL", "UV_INDEX_URL"),
        ("npm_config_registry", "npm_config_registry"),
    ],
)
def test_a_variable_of_the_user_wins_over_a_file(
    tmp_path: Path, name: str, passed_on_as: str
) -> None:
    write(tmp_path / ".npmrc", "registry=https://file.corp.example/\n")
    write(
        tmp_path / ".config/pip/pip.conf",
        "[global]\nindex-url = https://file.corp.example/\n"
        "extra-index-url = https://file.corp.example/\n",
    )
    write(tmp_path / ".config/uv/uv.toml", 'index-url = "https://file.corp.example/"\n')

    settings = package_settings({name: "https://own.corp.example:8443/x"}, tmp_path)

    assert settings.indexes[passed_on_as] == "https://own.corp.example:8443/x"
    assert "own.corp.example:8443" in corporate(settings)
    # For uv, the variable of the file would be the stronger one.
    if name == "UV_INDEX_URL":
        assert "UV_DEFAULT_INDEX" not in settings.indexes


def test_certificates_are_passed_on_if_they_are_there(tmp_path: Path) -> None:
    file = write(tmp_path / "own.pem", "")
    environ = {"PIP_CERT": str(file), "SSL_CERT_FILE": "/missing", "CURL_CA_BUNDLE": "own.pem"}

    assert package_settings(environ, tmp_path).certificates == {"PIP_CERT": str(file)}


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("GOPROXY", "https://me:pw@go.corp.example/a,direct", "https://go.corp.example/a,direct"),
        ("GOPROXY", "https://a:pw@x.corp.example|https://b:pw@y.corp.example", None),
        ("PIP_INDEX_URL", "https://pw@pip.corp.example:8443/simple", None),
        ("PIP_EXTRA_INDEX_URL", "https://a:pw@x.corp.example https://pw@y.corp.example", None),
        ("UV_INDEX", "name=https://a:p%40pw@x.corp.example", "name=https://x.corp.example"),
        ("CARGO_REGISTRIES_X_INDEX", "sparse+https://a:pw@x.corp.example/", None),
        ("npm_config_registry", "https://a@b:pw@x.corp.example/", "https://x.corp.example/"),
    ],
)
def test_no_password_is_passed_on_or_shown(
    tmp_path: Path, name: str, value: str, left: str | None
) -> None:
    settings = package_settings({**NO_FILES, name: value}, tmp_path)

    assert "pw" not in str(settings)
    assert "pw" not in " ".join(map(str, registries(settings)))
    assert corporate(settings)
    if left is not None:
        assert settings.indexes == {name: left}


@pytest.mark.attack("W1")
@pytest.mark.parametrize(
    "value",
    [
        "file:///srv/simple",
        "ssh://git@git.corp.example/index",
        "ftp://ftp.corp.example/",
        "sparse+file:///srv/",
        "//x.corp.example/",
        "x.corp.example",
        "http://",
        "http://x.corp.example:port/",
        "http://x.corp.example:99999/",
        "http://[x.corp.example/",
        "http://x.corp.example=10.0.0.1/",
        "",
    ],
)
def test_what_is_no_address_of_a_web_server_opens_nothing(tmp_path: Path, value: str) -> None:
    names = ("GOPROXY", "PIP_INDEX_URL", "UV_INDEX", "CARGO_REGISTRIES_X_INDEX")

    settings = package_settings({**NO_FILES, **dict.fromkeys(names, value)}, tmp_path)

    assert settings.indexes == {}
    assert registries(settings) == registries(PackageSettings({}, {}, {}))


@pytest.mark.attack("W1")
def test_files_of_a_project_open_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    index = "https://evil.corp.example/"
    for name in ("pip.conf", ".config/pip/pip.conf", ".venv/pip.conf"):
        write(project / name, f"[global]\nindex-url = {index}\n")
    for name in ("uv.toml", ".config/uv/uv.toml"):
        write(project / name, f'index-url = "{index}"\n')
    write(project / "pyproject.toml", f'[[tool.uv.index]]\nurl = "{index}"\n')
    write(project / ".npmrc", f"registry={index}\n")
    write(project / ".cargo/config.toml", f'[registries.evil]\nindex = "sparse+{index}"\n')
    write(project / "config.toml", f'[registries.evil]\nindex = "sparse+{index}"\n')
    for name in ("env", "go/env", "go.env", ".env"):
        write(project / name, f"GOPROXY={index}\nPIP_INDEX_URL={index}\n")
    monkeypatch.chdir(project)
    # The user's own variables, which lead into the project only because it is the folder here.
    environ = {
        "CARGO_HOME": ".cargo",
        "GOENV": "env",
        "NPM_CONFIG_USERCONFIG": ".npmrc",
        "PIP_CONFIG_FILE": "pip.conf",
        "UV_CONFIG_FILE": "uv.toml",
        "VIRTUAL_ENV": str(project / ".venv"),
        "XDG_CONFIG_HOME": ".config",
    }

    settings = package_settings(environ, tmp_path / "home")

    assert "evil" not in str(settings)
    assert corporate(settings) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".config/pip/pip.conf", "index-url = no section"),
        (".config/uv/uv.toml", "index-url = [unclosed"),
        (".config/uv/uv.toml", 'index = "text"\nindex-url = 3\n'),
        (".cargo/config.toml", "registries = 3"),
        (".cargo/config.toml", "[registries]\nlocal = 3\n[registries.other]\nindex = 4\n"),
        (".npmrc", "\udcff"),
        (".config/go/env", "no equals sign"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(text.encode("utf-8", "surrogateescape"))

    found = package_settings({}, tmp_path)

    assert found.indexes == package_settings({}, tmp_path / "empty").indexes
