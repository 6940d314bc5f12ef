"""`python -m release.site`: build the site into build/site."""

from release.site.building import main

main()
