"""Projects whose tools are installed as developers install them, and what commands make of them."""
