"""What runs in a worker's pane: report, ship, battery. Imports schemas only; reaches the forge by command."""
