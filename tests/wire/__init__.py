"""The wire: servers that speak the vendors' formats, and one suite for every provider."""
