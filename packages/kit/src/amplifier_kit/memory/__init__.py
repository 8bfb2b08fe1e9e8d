"""What contexts share: a measured history, views of it that fit, large results put aside."""
