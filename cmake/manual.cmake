# manual.cmake - write the manual pages and shell completion that the command prints.
#
# cmake -DPARE=command -DOUT=folder -DNAMES=commands -P manual.cmake
function(print file)
  execute_process(COMMAND ${PARE} help ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "pare help ${ARGN}: ${failed}")
  endif()
endfunction()

file(MAKE_DIRECTORY ${OUT}/man ${OUT}/completion)
print(${OUT}/man/pare.1 --man)
foreach(name ${NAMES})
  print(${OUT}/man/pare-${name}.1 ${name} --man)
endforeach()
print(${OUT}/completion/pare --completion bash)
print(${OUT}/completion/_pare --completion zsh)
