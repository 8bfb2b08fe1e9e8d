"""Finding secrets in output and logs, and blanking them."""
