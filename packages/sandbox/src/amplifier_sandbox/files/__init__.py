"""What tools that touch files share: rooted access, checkpoints, differences."""
