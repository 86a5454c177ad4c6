// cc-driver [OPTIONS] FILE...: from C, C++ and assembly to firmware for AVR microcontrollers, in one command. It does
// what the driver of AVR GCC does, which the toolchain compiled to WebAssembly lacks: it starts `cc1`, `cc1plus`,
// `avr-as`, `avr-ld` and `avr-objcopy` one after the other, shows what they say, stops at the first that fails and
// ends with its status. docs/guest-abi.md has an example.
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: cc-driver [OPTIONS] FILE...\n"
    "\n"
    "Compiles each FILE by its suffix (.c, .cc, .cpp, .s; .o and .a are linked) and links them.\n"
    "The toolchain's `include` is expected at /inc, and its `sysroot` at /lib.\n"
    "\n"
    "  -o FILE          the result: Intel hex if FILE ends in .hex, else an ELF file (a.out)\n"
    "  -S, -c           stop with assembly, or with an object\n"
    "  -mmcu=CHIP       the microcontroller (atmega328p)\n"
    "  -v               show each command\n"
    "  -T FILE          the linker script, instead of a plain one for the chip\n"
    "  -nostartfiles    what runs before main is among the FILEs\n"
    "  -Wl,OPT,... -L DIR -l NAME  for the linker\n"
    "  -D -U -I -O -W -w -f -m -g -std= -isystem  for the compiler\n";

// --- lists and texts -------------------------------------------------------------------------------------------------

struct list {
    char **items;
    size_t count, room;
};

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void *checked(void *memory) {
    if (!memory) die("out of memory");
    return memory;
}

// The list is always closed by a null pointer.
static void add(struct list *list, const char *text) {
    if (list->count + 1 >= list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->items = checked(realloc(list->items, list->room * sizeof *list->items));
    }
    list->items[list->count++] = checked(strdup(text));
    list->items[list->count] = NULL;
}

#define ADD(list, ...) add_all((list), (const char *[]){__VA_ARGS__, NULL})

static void add_all(struct list *list, const char *texts[]) {
    for (; *texts; texts++) add(list, *texts);
}

static void add_list(struct list *list, const struct list *more) {
    for (size_t i = 0; i < more->count; i++) add(list, more->items[i]);
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...) {
    char *made;
    va_list arguments;
    va_start(arguments, format);
    int len = vasprintf(&made, format, arguments);
    va_end(arguments);
    return checked(len < 0 ? NULL : made);
}

static bool begins(const char *whole, const char *with) {
    return strncmp(whole, with, strlen(with)) == 0;
}

static const char *suffix(const char *path) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot : "";
}

// The file's name in the current directory, with another suffix.
static char *beside(const char *path, const char *new_suffix) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return text("%.*s%s", (int)(strlen(name) - strlen(suffix(name))), name, new_suffix);
}

// --- files that go when it ends --------------------------------------------------------------------------------------

static struct list temporaries;
static const char *unfinished; // the result, while a tool writes it

static void clean(void) {
    for (size_t i = 0; i < temporaries.count; i++) unlink(temporaries.items[i]);
    if (unfinished) unlink(unfinished);
}

static _Noreturn void die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("cc-driver: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    clean();
    exit(1);
}

static char *temporary(const char *its_suffix) {
    char *path = text("/tmp/cc-driver-%d-%zu%s", getpid(), temporaries.count, its_suffix);
    add(&temporaries, path);
    return path;
}

static char *temporary_with(const char *its_suffix, const char *contents) {
    char *path = temporary(its_suffix);
    FILE *file = fopen(path, "w");
    if (!file) die("cannot write %s: %s", path, strerror(errno));
    bool failed = fputs(contents, file) < 0;
    if (fclose(file) || failed) die("cannot write %s: %s", path, strerror(errno));
    return path;
}

// --- chips -----------------------------------------------------------------------------------------------------------

struct chip {
    const char *name;   // without the letter of the variant
    const char *arch;   // the compiler's and the linker's
    const char *libdir; // of libgcc
    int flash_kib, memory_start, memory_bytes; // 0 if what runs before main is not known
};

static const struct chip chips[] = {
    {"atmega2560", "avr6", "avr6", 256, 0x800200, 8192},
    {"atmega168", "avr5", "avr5", 16, 0x800100, 1024},
    {"atmega328", "avr5", "avr5", 32, 0x800100, 2048},
    {"atmega32u4", "avr5", "avr5", 32, 0x800100, 2560},
    {"atmega48", "avr4", "avr4", 4, 0x800100, 512},
    {"atmega88", "avr4", "avr4", 8, 0x800100, 1024},
    {"attiny13", "avr25", "avr25/tiny-stack", 0, 0, 0},
    {"attiny2313", "avr25", "avr25/tiny-stack", 0, 0, 0},
    {"attiny24", "avr25", "avr25/tiny-stack", 0, 0, 0},
    {"attiny25", "avr25", "avr25/tiny-stack", 0, 0, 0},
    {"attiny4313", "avr25", "avr25", 0, 0, 0},
    {"attiny44", "avr25", "avr25", 0, 0, 0},
    {"attiny45", "avr25", "avr25", 0, 0, 0},
    {"attiny84", "avr25", "avr25", 0, 0, 0},
    {"attiny85", "avr25", "avr25", 0, 0, 0},
};

static const struct chip *chip_called(const char *name) {
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        size_t len = strlen(chips[i].name);
        const char *variant = name + len;
        if (begins(name, chips[i].name) && (!*variant || !strcmp(variant, "p") || !strcmp(variant, "a"))) {
            return &chips[i];
        }
    }
    die("%s is not a chip that it knows: atmega48, 88, 168, 328, 32u4, 2560, attiny13, 24, 25, 44, 45, 84, 85, 2313, "
        "4313", name);
}

// ATmega328P for atmega328p.
static char *device_of(const char *name) {
    char *device = text("%s", name);
    device[0] = 'A';
    device[1] = 'T';
    for (char *at = device + 6; *at; at++) *at = toupper((unsigned char)*at);
    return device;
}

static const char start_code[] =
    "        .section .vectors, \"ax\", @progbits\n"
    "        .global __vectors\n"
    "__vectors:\n"
    "        %s     reset\n"
    "        .section .init2, \"ax\", @progbits\n"
    "reset:  clr     r1\n"
    "        out     0x3f, r1\n"
    "        ldi     r28, lo8(__stack)\n"
    "        ldi     r29, hi8(__stack)\n"
    "        out     0x3e, r29\n"
    "        out     0x3d, r28\n"
    "        .section .init9, \"ax\", @progbits\n"
    "        %s    main\n"
    "stop:   rjmp    stop\n";

static const char linker_script[] =
    "OUTPUT_FORMAT(\"elf32-avr\")\n"
    "OUTPUT_ARCH(avr:%s)\n"
    "ENTRY(__vectors)\n"
    "MEMORY {\n"
    "    flash (rx)   : ORIGIN = 0, LENGTH = %dK\n"
    "    sram  (rw!x) : ORIGIN = %#x, LENGTH = %d\n"
    "}\n"
    "SECTIONS {\n"
    "    .text : { KEEP(*(.vectors)) KEEP(*(.init2)) KEEP(*(.init4)) KEEP(*(.init9)) *(.progmem*) *(.text .text.*) } > "
    "flash\n"
    "    .data : { __data_start = .; *(.data .data.* .rodata .rodata.*) __data_end = .; } > sram AT > flash\n"
    "    __data_load_start = LOADADDR(.data);\n"
    "    .bss : { __bss_start = .; *(.bss .bss.* COMMON) __bss_end = .; } > sram\n"
    "    __stack = ORIGIN(sram) + LENGTH(sram) - 1;\n"
    "}\n";

// --- the tools -------------------------------------------------------------------------------------------------------

static bool verbose;

// Runs a tool, and ends as it does if it fails.
static void run(const struct list *command) {
    if (verbose) {
        for (size_t i = 0; i < command->count; i++) fprintf(stderr, "%s%s", i ? " " : "", command->items[i]);
        fputc('\n', stderr);
    }
    const char *name = command->items[0];
    pid_t pid;
    int status, error = posix_spawnp(&pid, name, NULL, NULL, command->items, environ);
    if (error == ENOENT) die("there is no program %s; name the folder that has it: --toolchain DIR", name);
    if (error) die("cannot start %s: %s", name, strerror(error));
    if (waitpid(pid, &status, 0) < 0) die("cannot wait for %s: %s", name, strerror(errno));
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "cc-driver: %s was ended by signal %d\n", name, WTERMSIG(status));
        clean();
        exit(128 + WTERMSIG(status));
    }
    if (WEXITSTATUS(status)) {
        if (verbose) fprintf(stderr, "cc-driver: %s failed with status %d\n", name, WEXITSTATUS(status));
        clean();
        exit(WEXITSTATUS(status));
    }
}

// What the command line asks for.
struct job {
    const char *output, *mcu, *script;
    bool assembly_only, objects_only, no_start;
    struct list files, compiler, linker, libraries;
    const struct chip *chip;
};

static void compile(const struct job *job, const char *source, bool is_cxx, const char *to) {
    struct list command = {0};
    ADD(&command, is_cxx ? "cc1plus" : "cc1", "-quiet", "-imultilib", job->chip->libdir);
    ADD(&command, "-isystem", "/inc/gcc", "-isystem", "/inc/gcc-fixed", "-isystem", "/inc/avr");
    ADD(&command, text("-D__AVR_%s__", device_of(job->mcu)), "-D__AVR_RODATA_IN_RAM__=1");
    ADD(&command, text("-D__AVR_DEVICE_NAME__=%s", job->mcu));
    ADD(&command, strcmp(job->chip->arch, "avr6") == 0 ? "-mn-flash=4" : "-mn-flash=1");
    ADD(&command, "-mdouble=32", "-mlong-double=32", text("-mmcu=%s", job->chip->arch));
    if (is_cxx) ADD(&command, "-fno-exceptions", "-fno-rtti");
    add_list(&command, &job->compiler);
    ADD(&command, source, "-o", to);
    run(&command);
}

static void assemble(const struct job *job, const char *source, const char *to) {
    struct list command = {0};
    ADD(&command, "avr-as", text("-mmcu=%s", job->mcu), "-mno-skip-bug", "-o", to, source);
    run(&command);
}

// Makes an object of `file`, or what the job stops with; answers the object.
static const char *object_of(const struct job *job, const char *file) {
    const char *kind = suffix(file);
    bool is_cxx = !strcmp(kind, ".cc") || !strcmp(kind, ".cpp") || !strcmp(kind, ".cxx") || !strcmp(kind, ".C");
    bool is_source = is_cxx || !strcmp(kind, ".c"), is_assembly = !strcmp(kind, ".s");
    bool stops = job->assembly_only || job->objects_only;
    if (!is_source && !is_assembly) return file;
    const char *result = job->output ? job->output : beside(file, job->assembly_only ? ".s" : ".o");
    if (stops) unfinished = result;
    const char *assembly = file;
    if (is_source) {
        assembly = job->assembly_only ? result : temporary(".s");
        compile(job, file, is_cxx, assembly);
    }
    const char *object = NULL;
    if (!job->assembly_only) {
        object = stops ? result : temporary(".o");
        assemble(job, assembly, object);
    }
    unfinished = NULL;
    return object;
}

static void link_objects(const struct job *job, const struct list *objects) {
    const char *output = job->output ? job->output : "a.out", *script = job->script;
    bool is_hex = strcmp(suffix(output), ".hex") == 0;
    const char *elf = is_hex ? temporary(".elf") : output;
    const struct chip *chip = job->chip;
    if ((!script || !job->no_start) && !chip->flash_kib) {
        die("no start code is known for %s: bring it among the files, with -nostartfiles and -T SCRIPT", job->mcu);
    }
    if (!script) {
        int start = chip->memory_start, bytes = chip->memory_bytes;
        script = temporary_with(".ld", text(linker_script, chip->arch + 3, chip->flash_kib, start, bytes));
    }
    struct list command = {0};
    ADD(&command, "avr-ld", "-m", chip->arch, "-T", script);
    add_list(&command, &job->linker);
    if (!job->no_start) {
        bool is_far = strcmp(chip->arch, "avr4") != 0;
        const char *source = temporary_with(".s", text(start_code, is_far ? "jmp" : "rjmp", is_far ? "call" : "rcall"));
        const char *object = temporary(".o");
        assemble(job, source, object);
        add(&command, object);
    }
    add_list(&command, objects);
    add(&command, text("-L/lib/%s", chip->libdir));
    add_list(&command, &job->libraries);
    ADD(&command, "--start-group", "-lgcc", "-lm", "--end-group", "-o", elf);
    unfinished = output;
    run(&command);
    if (is_hex) {
        struct list convert = {0};
        ADD(&convert, "avr-objcopy", "-O", "ihex", "-R", ".eeprom", elf, output);
        run(&convert);
    }
    unfinished = NULL;
}

// --- the command line ------------------------------------------------------------------------------------------------

// The value of an option that has it in the same argument or in the next one.
static const char *value_of(char ***at, int len) {
    if ((**at)[len]) return **at + len;
    if (!(*at)[1]) die("%s needs a value", **at);
    return *++*at;
}

static void add_linker_options(struct job *job, const char *options) {
    char *copy = text("%s", options), *rest = copy, *option;
    while ((option = strsep(&rest, ","))) add(&job->linker, option);
    free(copy);
}

static struct job read_arguments(char **argv) {
    struct job job = {.mcu = "atmega328p"};
    for (char **at = argv + 1; *at; at++) {
        const char *arg = *at;
        if (!strcmp(arg, "--help")) {
            fputs(usage, stdout);
            exit(0);
        }
        if (arg[0] != '-') add(&job.files, arg);
        else if (!strcmp(arg, "-v")) verbose = true;
        else if (!strcmp(arg, "-S")) job.assembly_only = true;
        else if (!strcmp(arg, "-c")) job.objects_only = true;
        else if (!strcmp(arg, "-nostartfiles")) job.no_start = true;
        else if (begins(arg, "-mmcu=")) job.mcu = arg + 6;
        else if (begins(arg, "-o")) job.output = value_of(&at, 2);
        else if (begins(arg, "-T")) job.script = value_of(&at, 2);
        else if (begins(arg, "-Wl,")) add_linker_options(&job, arg + 4);
        else if (begins(arg, "-L")) ADD(&job.linker, text("-L%s", value_of(&at, 2)));
        else if (begins(arg, "-l")) ADD(&job.libraries, text("-l%s", value_of(&at, 2)));
        else if (!strcmp(arg, "-isystem")) ADD(&job.compiler, arg, value_of(&at, 8));
        else if (strchr("DUI", arg[1]) && arg[1]) ADD(&job.compiler, text("-%c%s", arg[1], value_of(&at, 2)));
        else if ((strchr("OWfmgw", arg[1]) && arg[1]) || begins(arg, "-std=")) add(&job.compiler, arg);
        else die("%s is not an option that it knows; --help lists them", arg);
    }
    if (!job.files.count) die("no files; --help shows the options");
    if (job.output && job.files.count > 1 && (job.assembly_only || job.objects_only)) {
        die("-o names one file, and %zu are to be made", job.files.count);
    }
    if (!begins(job.mcu, "atmega") && !begins(job.mcu, "attiny")) die("%s is not a chip that it knows", job.mcu);
    job.chip = chip_called(job.mcu);
    return job;
}

int main(int argc, char **argv) {
    (void)argc;
    struct job job = read_arguments(argv);
    struct list objects = {0};
    for (size_t i = 0; i < job.files.count; i++) {
        const char *object = object_of(&job, job.files.items[i]);
        if (object) add(&objects, object);
    }
    if (!job.assembly_only && !job.objects_only) link_objects(&job, &objects);
    clean();
    return 0;
}
