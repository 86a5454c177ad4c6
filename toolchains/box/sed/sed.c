// sed: edits streams. Options and commands are those of GNU sed, but e and its flag, which run programs.
#include "sed.h"

struct script script = {.end_of_line = '\n'};

static void add_part(struct bytes *text, const char *part, size_t len) {
    if (text->at) append(text, "\n", 1);
    append(text, part, len);
}

static void add_file(struct bytes *text, const char *path) {
    struct bytes part;
    if (!read_whole(path, &part)) exit(1);
    if (part.len && part.at[part.len - 1] == '\n') part.len--;
    add_part(text, part.at, part.len);
    free(part.at);
}

int tool_sed(int argc, char **argv) {
    static const struct option options[] = {
        {"quiet", no_argument, NULL, 'n'}, {"silent", no_argument, NULL, 'n'},
        {"expression", required_argument, NULL, 'e'}, {"file", required_argument, NULL, 'f'},
        {"regexp-extended", no_argument, NULL, 'E'}, {"in-place", optional_argument, NULL, 'i'},
        {"separate", no_argument, NULL, 's'}, {"null-data", no_argument, NULL, 'z'},
        {"unbuffered", no_argument, NULL, 'u'}, {"posix", no_argument, NULL, 'p'},
        {"follow-symlinks", no_argument, NULL, 'p'}, {"version", no_argument, NULL, 'V'}, {0},
    };
    struct bytes text = {0};
    const char *suffix = NULL;
    for (int option; (option = getopt_long(argc, argv, "nre:f:Ei::szul:", options, NULL)) != -1;) {
        switch (option) {
            case 'n': script.quiet = true; break;
            case 'e': add_part(&text, optarg, strlen(optarg)); break;
            case 'f': add_file(&text, optarg); break;
            case 'r': case 'E': script.is_extended = true; break;
            case 'i':
                script.in_place = script.separate = true;
                suffix = optarg && *optarg ? optarg : NULL;
                break;
            case 's': script.separate = true; break;
            case 'z': script.end_of_line = '\0'; break;
            case 'u': script.unbuffered = true; break;
            case 'p': case 'l': break;
            case 'V':
                // Scripts look for the name GNU here to learn which options there are.
                puts("sed (belljar box), with the options of GNU sed 4.8");
                return 0;
            default: die_usage();
        }
    }
    if (!text.at) {
        if (optind == argc) die("usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...");
        add_part(&text, argv[optind], strlen(argv[optind]));
        optind++;
    }
    parse_script(&text);
    return run_script(argv + optind, argc - optind, suffix);
}
