"""What every provider does around its vendor's SDK: announce, retry, time and price a call."""
