#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Prints a Markdown page as Doxygen should read it:   page.pl FILE.md
#   - Headings get the names that GitHub gives them, preceded by the page's, so that links to sections work.
#   - Code in headings and links is plain text, since Doxygen would show its quotation marks.
#   - Only names are shown of sources, scripts and tables, which are no pages of the site.
#   - Headings of the front page stay out of the navigation tree, which begins with the guides.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));

# The name of a page in labels: docs/guides/mpi.md is guides-mpi.
sub page_name {
  my @path;
  for my $part (split m{/}, $_[0]) {
    if ($part eq '..') { pop @path } elsif ($part ne '.') { push @path, $part }
  }
  $path[-1] =~ s/\.md$//;
  return join '-', @path > 1 ? @path[-2, -1] : @path;
}

# A heading's name, as mpi-scripts/check/links.py and GitHub make it.
sub slug {
  my $name = lc($_[0] =~ s/\]\([^)]*\)//gr) =~ s/[^\w\- ]//gr;
  return $name =~ s/^ +| +$//gr =~ s/ /-/gr;
}

my ($file) = @ARGV;
my ($folder) = $file =~ m{^(.*/)};
$folder //= '';
my $page = page_name($file);
my $is_code = 0;
open my $in, '<', $file or die "$file: $!";
while (<$in>) {
  $is_code = !$is_code if /^```/;
  if (!$is_code) {
    s/(?<!!)\[`?([^]`]+)`?\]\((?!\w+:|#|[^)#]*\.md[)#])[^)]*\)/`$1`/g;
    s/\]\(([^):#]+\.md)#([^)]*)\)/'](#' . page_name("$folder$1") . "--$2)"/ge;
    s/\]\(#([^)]*)\)/](#$page--$1)/g unless /\]\(#[\w-]*--/;
    s/\[`([^`\]]+)`\]\(/[$1](/g;
    s/`//g if /^# /;
    if (my ($level, $title) = /^(##+) (.*)/) {
      my $plain = $title =~ s/`//gr;
      $_ = $file =~ /README\.md$/ ? "<h2>$plain</h2>\n" : "$level $plain {#$page--" . slug($title) . "}\n";
    }
  }
  print;
}
