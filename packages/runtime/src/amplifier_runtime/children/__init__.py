"""Child agents of a turn, each as a turn of its own."""
