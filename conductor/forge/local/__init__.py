"""The embedded forge: a bare repository and an SQLite file; nothing to install and no account.

``forge`` is the door (``LocalForge``), ``pulls``, ``posts`` and ``runs`` its rows, ``store`` the SQLite file,
``repository`` the bare repository, ``refs`` and ``plumbing`` how it is read, ``runner`` and ``process`` the
checks.
"""
