"""What turns may use: rates of vendors, budgets of trees, quotas of tenants."""
