# SPDX-License-Identifier: Apache-2.0
# install: the header, both libraries, qsa.pc, the CMake package (qsa::qsa shared, qsa::static), and,
# where they were built, the command and its man page.
include(CMakePackageConfigHelpers)

set(qsa_cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/qsa)

install(DIRECTORY include/qsa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS qsa_shared qsa_static EXPORT qsa)
install(EXPORT qsa NAMESPACE qsa:: FILE qsaTargets.cmake DESTINATION ${qsa_cmakedir})

configure_package_config_file(cmake/qsaConfig.cmake.in qsaConfig.cmake
    INSTALL_DESTINATION ${qsa_cmakedir})
write_basic_package_version_file(qsaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qsaConfig.cmake ${PROJECT_BINARY_DIR}/qsaConfigVersion.cmake
    DESTINATION ${qsa_cmakedir})

# The .pc file finds its prefix from where it lies, so `cmake --install --prefix` may choose it late.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR
    BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE qsa_libdir)
set(qsa_pc_up "")
string(REGEX MATCHALL "[^/]+" qsa_pc_parts "${qsa_libdir}/pkgconfig")
foreach(part IN LISTS qsa_pc_parts)
    string(APPEND qsa_pc_up "/..")
endforeach()
configure_file(cmake/qsa.pc.in qsa.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qsa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET qsa_cuda)
    install(TARGETS qsa_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP) # loaded by its soname, never linked
endif()

if(TARGET qsa_tool)
    install(TARGETS qsa_tool)
    file(GLOB man_pages CONFIGURE_DEPENDS docs/*.1)
    install(FILES ${man_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
