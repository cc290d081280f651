"""The conductor: watches the workers' panes and leads each pull request through its review cycle."""
