"""The network of confined programs: a namespace of their own, and a proxy that filters."""
