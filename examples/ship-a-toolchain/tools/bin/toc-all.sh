# Updates all files of this directory that have a table of contents.
root=${0%/bin/*}
grep -rl --include='*.md' '^<!-- toc -->' . | sort | xargs "$root/toc"
