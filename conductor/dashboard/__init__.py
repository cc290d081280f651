"""What people see of the panes: rows, lines and tables. Reads states and journal lines only."""
