"""A stand-in for GitHub that the real gh program and the real git talk to, without a network.

    github.adopt(root, "octo/shop", login="worker-1", checks={"unit": ("pytest",)})   # a real bare copy, a real remote
    github.environment("worker-1")                 # the variables for gh; the token lies in its hosts.yml alone
    github.fault(faults.bad_gateway(operation="addComment", after=True))
    github.put_check("octo/shop", sha, "unit", "FAILURE", log="why"); github.put_status(...)
    github.server.requests                         # what was asked, by whom, for how many points
    github.assert_honest()                         # nothing was asked that is not modelled, or broke the description

Queries run over GitHub's published GraphQL schema, REST is checked against its OpenAPI description; `scripts/setup
--with-github` fetches both. What is not modelled is an error, never null. How the modules lie, from the bottom up:

- `bare` reads real bare repositories; `model` is the world; `rules` and `review_rules` say what may be done in it;
- `schema`, `graphql`, `fields`, `check_fields`, `pull_fields`, `mutations`, `search` are the GraphQL door;
- `openapi`, `rest`, `rest_*` are the REST door; `web`, `server`, `faults` are HTTP; `checks` and `git_ssh` CI and git;
- `world` is what tests use, `fixtures` has the `github` fixture, `__main__` makes a program of it.
"""
