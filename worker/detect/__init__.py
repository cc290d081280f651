"""Find a project's commands (format, lint, types, test) in the files it has, one module for each
ecosystem.
"""
