# Writes a header from lines `CODE NAME MESSAGE`.
BEGIN { print "/* Generated from errors.txt: edit that. */"; print "static const char *error_message(int code)\n{\n    switch (code) {" }
/^#/ || NF == 0 { next }
{
    code = $1
    name = toupper($2)
    sub(/^[^ ]+ [^ ]+ /, "")
    printf "    case %d: return \"%s: %s\";\n", code, name, $0
}
END { print "    default: return \"unknown error\";\n    }\n}" }
