# The libraries that foreshard is built on, all from the distribution.
#
# FORESHARD_STATIC_DEPENDENCIES: AUTO links those of them statically whose archive is installed, ON insists on all, OFF
# links the shared ones. A program with all of them needs nothing but libc, libm, libstdc++ and libgcc_s at run time.
set(FORESHARD_STATIC_DEPENDENCIES AUTO CACHE STRING
    "Link fmt, SQLite, zlib, liblzma, pugixml and libsodium statically: AUTO, ON or OFF")
set_property(CACHE FORESHARD_STATIC_DEPENDENCIES PROPERTY STRINGS AUTO ON OFF)
set(FORESHARD_SHARED_DEPENDENCIES "")

find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(CLI11 REQUIRED)
find_package(pugixml REQUIRED)
find_package(Threads REQUIRED)
# Headers alone are used: Asio, Beast, JSON.
find_package(Boost 1.81 REQUIRED)
# libsodium brings no package file for CMake. Linked by the rendezvous alone, which no installed library needs.
find_path(FORESHARD_SODIUM_INCLUDE sodium.h REQUIRED)
find_library(FORESHARD_SODIUM_LIBRARY sodium REQUIRED)
add_library(sodium::sodium UNKNOWN IMPORTED)
set_target_properties(sodium::sodium PROPERTIES IMPORTED_LOCATION ${FORESHARD_SODIUM_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${FORESHARD_SODIUM_INCLUDE})

# foreshard_shared(WHAT): AUTO goes on with the shared library and says so; ON stops.
macro(foreshard_shared what)
  if(FORESHARD_STATIC_DEPENDENCIES STREQUAL "ON")
    message(FATAL_ERROR "FORESHARD_STATIC_DEPENDENCIES=ON, but ${what} was not found")
  endif()
  list(APPEND FORESHARD_SHARED_DEPENDENCIES "${what}")
endmacro()

# foreshard_link_archive(TARGET NAME [libraries...]): the imported TARGET links libNAME.a, and the libraries that it
# needs in turn.
function(foreshard_link_archive target name)
  find_library(FORESHARD_ARCHIVE_${name} lib${name}.a)
  if(NOT FORESHARD_ARCHIVE_${name})
    foreshard_shared(lib${name}.a)
    set(FORESHARD_SHARED_DEPENDENCIES ${FORESHARD_SHARED_DEPENDENCIES} PARENT_SCOPE)
    return()
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${FORESHARD_ARCHIVE_${name}}
                        IMPORTED_LOCATION_RELEASE ${FORESHARD_ARCHIVE_${name}} INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

if(FORESHARD_STATIC_DEPENDENCIES STREQUAL "OFF")
  find_package(fmt REQUIRED)
else()
  foreshard_link_archive(ZLIB::ZLIB z)
  foreshard_link_archive(LibLZMA::LibLZMA lzma Threads::Threads)
  foreshard_link_archive(SQLite::SQLite3 sqlite3 ZLIB::ZLIB Threads::Threads m)
  foreshard_link_archive(sodium::sodium sodium Threads::Threads)
  if(TARGET pugixml::static)
    set_target_properties(pugixml::pugixml PROPERTIES INTERFACE_LINK_LIBRARIES pugixml::static)
  else()
    foreshard_shared(libpugixml.a)
  endif()

  # Debian and Ubuntu ship no libfmt.a; what it holds is instantiated from the headers, as its own format.cc does.
  find_path(FORESHARD_FMT_INCLUDE fmt/format-inl.h)
  set(version 0)
  if(FORESHARD_FMT_INCLUDE)
    file(STRINGS ${FORESHARD_FMT_INCLUDE}/fmt/core.h line REGEX "#define FMT_VERSION [0-9]+")
    string(REGEX MATCH "[0-9]+" version "${line}")
  endif()
  if(version GREATER_EQUAL 90000 AND version LESS 110000)
    add_library(foreshard_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cpp)
    add_library(fmt::fmt ALIAS foreshard_fmt)
    # The macro of the distribution's own target: objects are the same with either library.
    target_compile_definitions(foreshard_fmt PUBLIC FMT_SHARED)
    set_target_properties(foreshard_fmt PROPERTIES EXPORT_NAME fmt)
  else()
    foreshard_shared("fmt 9 or 10's fmt/format-inl.h")
    find_package(fmt REQUIRED)
  endif()
endif()
if(FORESHARD_SHARED_DEPENDENCIES)
  list(JOIN FORESHARD_SHARED_DEPENDENCIES ", " text)
  message(STATUS "Some dependencies stay shared libraries: ${text} not found")
endif()
