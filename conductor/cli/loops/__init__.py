"""The verbs of ``taskmaestro loop``: one module for each group of verbs that needs the same things."""
