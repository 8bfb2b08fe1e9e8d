"""The worker process: it takes turns, beats, and takes over the turns of workers that died."""
