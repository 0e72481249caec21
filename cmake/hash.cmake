# hash.cmake - a C file with the hash of other files and of a text.
# cmake -DNAME=variable -DHEADER=its.h -DTEXT=text -DFILES="a;b" -DOUT=out.c -P hash.cmake
set(all "${TEXT}")
foreach(file ${FILES})
  file(SHA256 ${file} hash)
  string(APPEND all "\n${hash}")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUT} "/* Made by hash.cmake. */\n#include \"${HEADER}\"\n\nconst char ${NAME}[] = \"${hash}\";\n")
