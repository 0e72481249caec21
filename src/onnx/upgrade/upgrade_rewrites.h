/* upgrade_rewrites.h - declarations of the rewrites that opset_changes.def lists. */
#ifndef PARE_ONNX_UPGRADE_REWRITES_H
#define PARE_ONNX_UPGRADE_REWRITES_H

#include "upgrade.h"

#define CHANGE(type, version, rewrite) pare_rewrite_fn pare_raise_##rewrite;
#include "opset_changes.def"
#undef CHANGE

#endif
