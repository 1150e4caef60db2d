# How Doxygen reads a Markdown page. Sources, scripts and tables are no pages of the site, so that only their names are shown.
s/\[`?([^]`]+)`?\]\([^):]*(\.(cpp|cu|sh|sbatch|py|csv|def)|Containerfile|(apps|src)\/[^)]*\.hpp)\)/`\1`/g
# Doxygen names headings in another way than GitHub does: links lead to the page.
s/(\]\([^):#]+\.md)#[^)]*\)/\1)/g
# Doxygen shows code in headings as text.
/^#/s/`//g
