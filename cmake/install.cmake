# What `cmake --install` and CPack make. Components: `program` is foreshard with its man pages and completions;
# `development` the libraries of core, sim, traces and viz with their headers, for find_package(foreshard); where CUDA
# was found `gpu` is foreshard-gpu, and `collectives` the library that the Python package loads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS foreshard RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
include(sbom)
foreshard_sbom(${PROJECT_BINARY_DIR}/foreshard.spdx.json)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE ${PROJECT_SOURCE_DIR}/README.md
              ${PROJECT_BINARY_DIR}/foreshard.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
if(TARGET foreshard-gpu)
  install(TARGETS foreshard-gpu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gpu OPTIONAL)
endif()
if(TARGET foreshard_collectives)
  install(TARGETS foreshard_collectives LIBRARY DESTINATION lib/foreshard-collectives COMPONENT collectives OPTIONAL)
endif()

# A program is built with the RUNPATH that it is installed with. CMake would give it another and end that with colons, to
# have room for a longer one: the loader reads an empty entry as the folder that the program is started in, and would take
# a library from there, whoever has put it there.
set_target_properties(foreshard PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
if(TARGET foreshard-gpu)
  set_target_properties(foreshard-gpu PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON)
endif()

# Debian and Ubuntu ship simdjson as a shared library alone: it goes beside the program, wherever that is put.
if(NOT FORESHARD_STATIC_DEPENDENCIES STREQUAL "OFF")
  get_target_property(kind simdjson::simdjson TYPE)
  if(kind STREQUAL "SHARED_LIBRARY")
    install(FILES $<TARGET_FILE:simdjson::simdjson> RENAME $<TARGET_SONAME_FILE_NAME:simdjson::simdjson>
            DESTINATION lib/foreshard COMPONENT program)
    set_target_properties(foreshard PROPERTIES INSTALL_RPATH "\$ORIGIN/../lib/foreshard")
  endif()
endif()

# Man pages and completions are made from the option tables by the program itself. Debian's zsh looks into
# vendor-completions below /usr and into site-functions below /usr/local.
foreach(pages "man:--directory:${CMAKE_INSTALL_MANDIR}/man1:"
              "completion:bash:${CMAKE_INSTALL_DATADIR}/bash-completion/completions:foreshard"
              "completion:zsh:${CMAKE_INSTALL_DATADIR}/zsh/site-functions:_foreshard"
              "completion:zsh:${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions:_foreshard"
              "completion:fish:${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d:foreshard.fish")
  string(REPLACE ":" ";" pages "${pages}")
  list(GET pages 0 verb)
  list(GET pages 1 argument)
  list(GET pages 2 folder)
  list(GET pages 3 file)
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
    message(STATUS \"Installing: \${folder}/${file}\")
    file(MAKE_DIRECTORY \"\${folder}\")
    if(\"${verb}\" STREQUAL \"man\")
      execute_process(COMMAND \"$<TARGET_FILE:foreshard>\" man --directory \"\${folder}\" COMMAND_ERROR_IS_FATAL ANY)
    else()
      execute_process(COMMAND \"$<TARGET_FILE:foreshard>\" completion ${argument} OUTPUT_FILE \"\${folder}/${file}\"
                      COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT program)
endforeach()

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/foreshard)
foreach(room core sim traces viz)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${room} DESTINATION ${headers} COMPONENT development
          FILES_MATCHING PATTERN "*.hpp" PATTERN page EXCLUDE PATTERN samples EXCLUDE PATTERN profiles EXCLUDE)
endforeach()

# The libraries that foreshard_library() has collected, and those of ours that they link.
get_property(libraries GLOBAL PROPERTY FORESHARD_LIBRARIES)
foreach(own foreshard_fmt foreshard_asio)
  if(TARGET ${own})
    list(APPEND libraries ${own})
  endif()
endforeach()
set_target_properties(foreshard_asio PROPERTIES EXPORT_NAME asio)
add_custom_target(libraries DEPENDS ${libraries})
install(TARGETS ${libraries} EXPORT foreshard ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set(config ${CMAKE_INSTALL_LIBDIR}/cmake/foreshard)
install(EXPORT foreshard FILE foreshardTargets.cmake NAMESPACE foreshard:: DESTINATION ${config}
        COMPONENT development)
if(TARGET foreshard_fmt)
  set(FORESHARD_FIND_FMT "")
else()
  set(FORESHARD_FIND_FMT "find_dependency(fmt)")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/foreshardConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/foreshardConfig.cmake INSTALL_DESTINATION ${config})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/foreshardConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/foreshardConfig.cmake ${PROJECT_BINARY_DIR}/foreshardConfigVersion.cmake
        DESTINATION ${config} COMPONENT development)

# Packages of the program alone. Stripped; the .tar.gz may be unpacked anywhere.
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};foreshard;program;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "the foreshard maintainers <maintainers@foreshard.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME foreshard-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "librsvg2-bin, graphviz")
include(CPack)
