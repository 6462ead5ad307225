# An installed or unpacked program needs nothing of the machine but the C and C++ libraries; any other lies beside it,
# in lib/foreshard. cmake -DPROGRAM=…/bin/foreshard -P linkage_test.cmake
execute_process(COMMAND readelf -d ${PROGRAM} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "Shared library: \\[[^]]+" needed "${text}")
get_filename_component(beside ${PROGRAM}/../../lib/foreshard ABSOLUTE)
foreach(library ${needed})
  string(REGEX REPLACE ".*\\[" "" library "${library}")
  if(NOT library MATCHES "^(libc|libm|libstdc\\+\\+|libgcc_s|ld-linux-[a-z0-9_-]+)\\.so"
     AND NOT EXISTS ${beside}/${library})
    message(FATAL_ERROR "${PROGRAM} needs ${library}")
  endif()
endforeach()
string(REGEX MATCHALL "(RUNPATH|RPATH)[^[]*\\[[^]]+" paths "${text}")
foreach(path ${paths})
  string(REGEX REPLACE ".*\\[" "" path "${path}")
  if(NOT path STREQUAL "\$ORIGIN/../lib/foreshard")
    message(FATAL_ERROR "${PROGRAM} looks for libraries in ${path}")
  endif()
endforeach()
