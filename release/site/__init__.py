"""The site of the documentation: `python -m release.site`, which `make docs` calls.

navigation  the sections of the site and their pages, as README.md lists them
staging     the pages, as the generator of the site wants them
links       links of the built site that lead nowhere
building    stages, builds and checks

The pages are Markdown that reads well without a site. Everything that a site needs besides is made
here, from the pages themselves.
"""
