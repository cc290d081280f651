"""What runs in a worker's pane. Imports schemas only, never the conductor."""
