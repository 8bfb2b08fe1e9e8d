"""What reaches a turn from outside: answers to its questions, cancellation, steering."""
