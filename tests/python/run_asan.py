# run_asan.py - run a test of the Python package with a library that has the address sanitizer.
#
#     run_asan.py LIBASAN test_x.py ...
#
# Python itself has no sanitizer, so the sanitizer's library is loaded first.  Errors end the test.  Leaks are reported at
# its end: those of the interpreter and of its modules are ignored, those whose memory libpare allocated are errors.
import os
import re
import subprocess
import sys
import tempfile

LIBASAN, SCRIPT = sys.argv[1], sys.argv[2:]


def leaks(text):
    """The blocks of a report whose memory was allocated by libpare: its first frame after the allocator."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        frames = re.findall(r"^\s+#\d+ 0x[0-9a-f]+ (.*)$", block, flags=re.M)
        frames = [f for f in frames if "libasan" not in f and "/libubsan" not in f]
        if re.search(r"(Direct|Indirect) leak of", block) and frames and "libpare.so" in " ".join(frames[:2]):
            found.append(block.strip())
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        env = {**os.environ, "LD_PRELOAD": LIBASAN, "PARE_ASAN": "1",
               "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:log_path=%s:halt_on_error=1:handle_segv=0" % log,
               "LSAN_OPTIONS": "exitcode=0:report_objects=0:max_leaks=0",
               "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
        code = subprocess.run([sys.executable, *SCRIPT], env=env, check=False).returncode
        text = ""
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                text += f.read() + "\n\n"
    errors = [b for b in re.split(r"(?=^=+\n==\d+==ERROR)", text, flags=re.M)
              if "ERROR: AddressSanitizer" in b]
    leaked = leaks(text)
    for report in errors + leaked[:10]:
        print(report)
    print("%s: exit code %d, %d errors, %d leaks of libpare, %d of others" % (
        os.path.basename(SCRIPT[0]), code, len(errors), len(leaked), len(re.findall("leak of", text)) - len(leaked)))
    return 1 if errors or leaked else code


sys.exit(main())
