"""What runs in a worker's pane: report, ship, battery. Imports schemas only; the forge is reached through the command line."""
