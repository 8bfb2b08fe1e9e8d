"""Finding secrets in what is about to be seen, and blanking them."""
