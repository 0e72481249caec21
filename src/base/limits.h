/* limits.h - what a file may ask for before it is refused: every limit of every format.
 *
 * They are far above what real files need; their purpose is that a small hostile file cannot take
 * the stack, all memory or all time of the machine.  docs/security.md lists them for users, and
 * tests/hostile has a file for each; tools/check_limits.sh compares the numbers and finds a limit
 * without a file.
 */
#ifndef PARE_BASE_LIMITS_H
#define PARE_BASE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- any file ----------------------------------------------------------------------------- */

#define PARE_IO_QUOTA ((size_t)1 << 34)      /* bytes of a file of data or weights */
#define PARE_MAX_MODEL ((uint64_t)1 << 36)   /* bytes of a model, or of a file beside it */
#define PARE_MAX_GROWTH ((size_t)1 << 31)    /* bytes that a file unpacks to beyond its own */
#define PARE_MAX_RATIO 1032                  /* deflate makes nothing smaller than by this */
#define PARE_MAX_ELEMENTS ((int64_t)1 << 40) /* of a tensor, in a file or computed */

/* ---- ONNX: the wire format ------------------------------------------------------------------ */

#define PARE_MAX_NESTING 100            /* messages inside messages */
#define PARE_MAX_UNPACKED 0x7fffffffu   /* bytes of structures built from a file, weights aside */
#define PARE_MAX_TEXT ((size_t)1 << 24) /* bytes of a name, a doc string, a note */

/* ---- ONNX: the graph ------------------------------------------------------------------------ */

#define PARE_MAX_NODES 1000000            /* of all graphs and functions of a file */
#define PARE_MAX_INLINED 200000           /* nodes that calls of model functions expand to */
#define PARE_MAX_EXPANDED 0x10000000u     /* bytes of functions, once for every call */
#define PARE_MAX_CALLS 64                 /* functions calling functions */
#define PARE_MAX_ATTRS 256                /* of a node that can run, or that calls a function */
#define PARE_MAX_IMPORTS 128              /* operator sets */
#define PARE_MAX_SPARSE ((size_t)1 << 28) /* bytes of sparse tensors written out */
#define PARE_MAX_EXTERNAL_FILES 16384     /* files of external data */
#define PARE_MAX_FOLDED 0x10000000u /* bytes computed from constants before a run, beyond ... */
#define PARE_FOLD_RATIO 8           /* ... this many times the constants */

/* ---- JSON ----------------------------------------------------------------------------------- */

#define PARE_JSON_BYTES ((size_t)1 << 26) /* of a recipe or a record */
#define PARE_JSON_DEPTH 64                /* lists in lists in lists */
#define PARE_CONFIG_BYTES (1 << 20)       /* of a config_list */
#define PARE_CONFIG_KEYS 1000             /* of an entry of it */

/* ---- lists of choices ------------------------------------------------------------------------ */

#define PARE_CHOICES_LINE 8192   /* bytes, with its end */
#define PARE_CHOICES_LINES 20000 /* of a file; when one is written, the newest half */

/* ---- weights -------------------------------------------------------------------------------- */

#define PARE_NPY_HEADER 65536                     /* bytes */
#define PARE_ZIP_ENTRIES 65536                    /* of .npz and .pth */
#define PARE_SAFETENSORS_HEADER ((size_t)1 << 25) /* bytes */
#define PARE_SAFETENSORS_ENTRIES ((size_t)1 << 18)
#define PARE_PICKLE_MAX ((size_t)1 << 24) /* bytes */
#define PARE_PICKLE_OBJECTS (1 << 20)     /* containers, tensors and storages */
#define PARE_PICKLE_STORAGES (1 << 16)
#define PARE_PICKLE_STACK (1 << 20)
#define PARE_PICKLE_KEY 32 /* bytes of a storage's key */
#define PARE_PTH_DEPTH 32  /* dicts in dicts */
#define PARE_PTH_NAMES (1 << 18)
#define PARE_PTH_NAME 1024 /* bytes, with the zero behind it */

/* ---- data ----------------------------------------------------------------------------------- */

#define PARE_MAX_PIXELS ((int64_t)1 << 26) /* of a picture */
#define PARE_JPEG_SCANS 64                 /* a small progressive file can ask for endless work */
#define PARE_FOLDER_DEPTH 16               /* folders in folders, or links in a circle */
#define PARE_FOLDER_FILES (1 << 22)        /* of a data set, three times those of ImageNet */
#define PARE_FOLDER_FOLDERS 30000

/* ---- what is handled at all ----------------------------------------------------------------- */

#define PARE_IR_NEWEST 10
#define PARE_OPSET_OLDEST 7
#define PARE_OPSET_NEWEST 21

#define PARE_REFERENCE 4096    /* bytes fields from this size on stay in the file */
#define PARE_SMALL_CONST 65536 /* misaligned constants up to this size are copied */

#endif
