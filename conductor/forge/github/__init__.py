"""The github forge: pull requests on GitHub (github.com or Enterprise Server), through the ``gh`` program.

``forge`` is the door (``GithubForge``). Below it: ``program`` finds gh, ``gh`` runs it and reads what it answers,
``faults`` says what a refusal means, ``pace`` is the back-off that all callers share, ``api`` asks and changes
things, ``queries`` are the documents. ``remote`` and ``heads`` know the repository's git side; ``pulls``,
``checks``, ``logs``, ``posts``, ``reviews``, ``history`` and ``issues`` make values of answers.
"""
