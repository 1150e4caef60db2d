# Headings of the front page stay out of the navigation tree, which begins with the guides.
s/^## (.*)/<h2>\1<\/h2>/
