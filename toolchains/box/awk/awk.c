// awk: the language of POSIX, with gensub, strftime, systime, strtonum, nextfile and RS as a regular expression.
#include "awk.h"

static void set_text(enum special special, const char *text) {
    globals[special].value = of_text(STRING, new_text(text, strlen(text)));
}

static void set_element(struct array *array, struct text *key, const char *text) {
    *array_find(array, key, true) = of_text(INPUT, new_text(text, strlen(text)));
    drop(key);
}

static void name_specials(void) {
    static const char *const names[SPECIALS] = {
        [V_NF] = "NF", [V_NR] = "NR", [V_FNR] = "FNR", [V_FS] = "FS", [V_OFS] = "OFS", [V_ORS] = "ORS", [V_RS] = "RS",
        [V_SUBSEP] = "SUBSEP", [V_CONVFMT] = "CONVFMT", [V_OFMT] = "OFMT", [V_RSTART] = "RSTART", [V_RLENGTH] = "RLENGTH",
        [V_FILENAME] = "FILENAME", [V_ENVIRON] = "ENVIRON", [V_ARGC] = "ARGC", [V_ARGV] = "ARGV", [V_RT] = "RT",
    };
    for (int i = 0; i < SPECIALS; i++) global_index(names[i]);
}

static void set_specials(char **operands, int count) {
    globals = grow(NULL, program.global_count * sizeof *globals);
    memset(globals, 0, program.global_count * sizeof *globals);
    set_text(V_FS, " ");
    set_text(V_OFS, " ");
    set_text(V_ORS, "\n");
    set_text(V_RS, "\n");
    set_text(V_SUBSEP, "\034");
    set_text(V_CONVFMT, "%.6g");
    set_text(V_OFMT, "%.6g");
    globals[V_NR].value = globals[V_FNR].value = globals[V_NF].value = globals[V_RSTART].value = of_number(0);
    globals[V_RLENGTH].value = of_number(-1);
    globals[V_ARGC].value = of_number(count + 1);
    globals[V_ARGV].array = new_array();
    globals[V_ENVIRON].array = new_array();
    set_element(globals[V_ARGV].array, number_text(0, NULL), tool);
    for (int i = 0; i < count; i++) set_element(globals[V_ARGV].array, number_text(i + 1, NULL), operands[i]);
    for (char **each = environ; each && *each; each++) {
        const char *equals = strchr(*each, '=');
        if (equals) set_element(globals[V_ENVIRON].array, new_text(*each, equals - *each), equals + 1);
    }
}

int tool_awk(int argc, char **argv) {
    trouble = 1;
    struct bytes source = {0};
    struct texts assignments = {0};
    const char *separator = NULL;
    static const struct option options[] = {{"field-separator", required_argument, NULL, 'F'},
                                            {"assign", required_argument, NULL, 'v'},
                                            {"file", required_argument, NULL, 'f'},
                                            {"posix", no_argument, NULL, 'P'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};
    for (int option; (option = getopt_long(argc, argv, "+F:v:f:e:V", options, NULL)) != -1;) {
        if (option == 'F') separator = optarg;
        else if (option == 'v') push(&assignments, optarg);
        else if (option == 'f') {
            struct bytes part;
            if (!read_whole(optarg, &part)) exit(2);
            append(&source, part.at, part.len);
            append(&source, "\n", 1);
            free(part.at);
        } else if (option == 'e') {
            append(&source, optarg, strlen(optarg));
            append(&source, "\n", 1);
        } else if (option == 'V') {
            puts("awk (belljar box)");
            return 0;
        } else if (option != 'P') {
            die_usage();
        }
    }
    if (!source.at) {
        if (optind == argc) die("usage: awk [-F fs] [-v var=value] [prog | -f progfile] [file ...]");
        append(&source, argv[optind], strlen(argv[optind]));
        optind++;
    }
    name_specials();
    parse_program(&source);
    trouble = 2;
    set_specials(argv + optind, argc - optind);
    if (separator) {
        // -Ft is a tab, as it always was.
        char assignment[] = "FS";
        struct bytes text = {0};
        append(&text, assignment, 2);
        append(&text, "=", 1);
        append(&text, strcmp(separator, "t") == 0 ? "\\t" : separator, strcmp(separator, "t") == 0 ? 2 : strlen(separator));
        assign_operand(text.at, 2);
        free(text.at);
    }
    for (size_t i = 0; i < assignments.count; i++) {
        const char *equals = strchr(assignments.at[i], '=');
        if (!equals || equals == assignments.at[i]) die("'%s': -v needs NAME=VALUE", assignments.at[i]);
        assign_operand(assignments.at[i], equals - assignments.at[i]);
    }
    return run_program_rules();
}
