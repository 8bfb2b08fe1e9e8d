"""What every app needs around the kernel: bundles, sources, settings, sessions on disk, replay."""
