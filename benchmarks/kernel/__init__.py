"""The kernel's benchmark: us, bare Python and the original side by side, as ratios with bars."""
