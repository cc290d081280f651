"""What runs in a worker's pane: report, ship, battery. It imports schemas only."""
