/* limits.h - limits for untrusted files: sizes, counts and nesting of every format.
 *
 * They are far above what real files need; they prevent a small hostile file from exhausting the
 * stack, memory or time.  docs/security.md lists them for users, and tests/hostile has a file
 * beyond each; tools/check_limits.sh compares the three.
 */
#ifndef PARE_BASE_LIMITS_H
#define PARE_BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- any file ----------------------------------------------------------------------------- */

#define PARE_IO_QUOTA ((size_t)1 << 34)      /* bytes of a file of data or weights */
#define PARE_MAX_MODEL ((uint64_t)1 << 36)   /* bytes of a model, or of an external data file */
#define PARE_MAX_GROWTH ((size_t)1 << 31)    /* bytes that unpacking adds to a file's size */
#define PARE_MAX_RATIO 1032                  /* maximum compression ratio of deflate */
#define PARE_MAX_ELEMENTS ((int64_t)1 << 40) /* elements of a tensor, in a file or computed */

/* ---- ONNX: the wire format ------------------------------------------------------------------ */

#define PARE_MAX_NESTING 100            /* nesting of messages */
#define PARE_MAX_UNPACKED 0x7fffffffu   /* bytes of structures built from a file, without weights */
#define PARE_MAX_TEXT ((size_t)1 << 24) /* bytes of a name, a doc string, a metadata entry */

/* ---- ONNX: the graph ------------------------------------------------------------------------ */

#define PARE_MAX_NODES 1000000        /* nodes of all graphs and functions of a file */
#define PARE_MAX_INLINED 200000       /* nodes after inlining model functions */
#define PARE_MAX_EXPANDED 0x10000000u /* bytes of functions, counted once per call */
#define PARE_MAX_CALLS 64             /* nesting of function calls */
#define PARE_MAX_ATTRS 256   /* attributes of a node that can run, or that calls a function */
#define PARE_MAX_IMPORTS 128 /* operator sets */
#define PARE_MAX_SPARSE ((size_t)1 << 28) /* bytes of sparse tensors, expanded */
#define PARE_MAX_EXTERNAL_FILES 16384     /* files of external data */
#define PARE_MAX_ITERATIONS (1 << 20)     /* runs of the bodies of If, Loop and Scan in one run */
#define PARE_FOLD_ITERATIONS 1000         /* the same while constants are folded */
#define PARE_MAX_SEQUENCE (1 << 16)       /* tensors of a sequence */
#define PARE_MAX_FOLDED 0x10000000u       /* bytes of folded constants; more is allowed up to */
#define PARE_FOLD_RATIO 8                 /* this multiple of the bytes of the constants */

/* ---- JSON ----------------------------------------------------------------------------------- */

#define PARE_JSON_BYTES ((size_t)1 << 26) /* bytes of a recipe or a run record */
#define PARE_JSON_DEPTH 64                /* nesting of lists and objects */
#define PARE_CONFIG_BYTES (1 << 20)       /* bytes of a config_list */
#define PARE_CONFIG_KEYS 1000             /* keys of an entry of a config_list */

/* ---- tuning choices -------------------------------------------------------------------------- */

#define PARE_CHOICES_LINE 8192   /* bytes of a line, including the newline */
#define PARE_CHOICES_LINES 20000 /* lines of a file; a full file is cut to its newest half */

/* ---- weights -------------------------------------------------------------------------------- */

#define PARE_NPY_HEADER 65536                     /* bytes */
#define PARE_ZIP_ENTRIES 65536                    /* entries of .npz and .pth */
#define PARE_SAFETENSORS_HEADER ((size_t)1 << 25) /* bytes */
#define PARE_SAFETENSORS_ENTRIES ((size_t)1 << 18)
#define PARE_PICKLE_MAX ((size_t)1 << 24) /* bytes */
#define PARE_PICKLE_OBJECTS (1 << 20)     /* containers, tensors and storages of a pickle */
#define PARE_PICKLE_STORAGES (1 << 16)
#define PARE_PICKLE_STACK (1 << 20)
#define PARE_PICKLE_KEY 32 /* bytes of a storage's key */
#define PARE_PTH_DEPTH 32  /* nesting of dicts */
#define PARE_PTH_NAMES (1 << 18)
#define PARE_PTH_NAME 1024 /* bytes of a name, including the terminating zero */

/* ---- data ----------------------------------------------------------------------------------- */

#define PARE_MAX_PIXELS ((int64_t)1 << 26) /* pixels of an image */
#define PARE_JPEG_SCANS 64 /* scans of a progressive JPEG: a small file can demand endless work */
#define PARE_CSV_COLUMNS 65536      /* columns of a table */
#define PARE_CSV_LINE (1 << 24)     /* bytes of a line of a table */
#define PARE_WAV_CHANNELS 64        /* channels of a sound */
#define PARE_FOLDER_DEPTH 16        /* nesting of folders; also ends cycles of links */
#define PARE_FOLDER_FILES (1 << 22) /* files of a data set: three times ImageNet */
#define PARE_FOLDER_FOLDERS 30000

/* ---- supported versions, and thresholds ----------------------------------------------------- */

#define PARE_IR_NEWEST 13
#define PARE_OPSET_OLDEST 7
#define PARE_OPSET_NEWEST 26

#define PARE_REFERENCE 4096    /* bytes from which raw fields stay in the mapped file */
#define PARE_SMALL_CONST 65536 /* bytes up to which misaligned constants are copied */

#endif
