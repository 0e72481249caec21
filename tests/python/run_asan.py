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

LIBASAN, SCRIPT = sys.argv[1], [os.path.abspath(sys.argv[2]), *sys.argv[3:]]


def leaks(text):
    """The blocks of a report whose memory was allocated by libpare: its first frame after the allocator."""
    found = []
    for block in re.split(r"\n\s*\n", text):
        frames = re.findall(r"^\s+#\d+ 0x[0-9a-f]+ (.*)$", block, flags=re.M)
        frames = [f for f in frames if "libasan" not in f and "/libubsan" not in f]
        if re.search(r"(Direct|Indirect) leak of", block) and frames and "libpare.so" in " ".join(frames[:2]):
            found.append(block.strip())
    return found


# The exit code of the process may be the sanitizer's, so the test writes its own into a file.
RUN = """import runpy, sys
result, sys.argv = sys.argv[1], sys.argv[2:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0] or ".")
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as e:
    with open(result, "w") as f:
        f.write(str(int(e.code or 0)))
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        log, result = os.path.join(folder, "log"), os.path.join(folder, "result")
        env = {**os.environ, "LD_PRELOAD": LIBASAN + " libstdc++.so.6",       # PyTorch's exceptions
               "ASAN_OPTIONS": "detect_leaks=1:log_path=%s:handle_segv=0:stack_trace_format='    #%%n %%p %%F %%L (%%m)'" % log,
               "LSAN_OPTIONS": "exitcode=0:max_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        subprocess.run([sys.executable, "-c", RUN, result, *SCRIPT], env=env, check=False)
        code, text = "none", ""
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                if name == "result":
                    code = f.read()
                else:
                    text += f.read() + "\n\n"
    errors = [b for b in re.split(r"(?=^=+\n==\d+==)", text, flags=re.M)
              if re.search("ERROR: AddressSanitizer|runtime error|CHECK failed", b)]
    leaked = leaks(text)
    for report in errors + leaked[:10]:
        print(report)
    print("%s: exit code %s, %d errors, %d leaks of libpare, %d of others" % (
        os.path.basename(SCRIPT[0]), code, len(errors), len(leaked), len(re.findall("leak of", text)) - len(leaked)))
    return 1 if errors or leaked or code != "0" else 0


sys.exit(main())
