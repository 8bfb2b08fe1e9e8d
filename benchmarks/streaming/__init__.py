"""What a streamed token costs on its way through the streaming loop to a user interface."""
