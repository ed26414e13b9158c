# What `cmake --install` puts where, and CPack's .deb and tarball. scripts/package.sh builds them.
#
# Nothing is installed outside the prefix: configuration in /etc/pergola is the administrator's, with
# examples among the documents.

include(GNUInstallDirs)

# Only the program is installed; tests need not be built first.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(docs "${CMAKE_INSTALL_DATADIR}/doc/pergola")

install(TARGETS pergola RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(CODE "
  foreach(shell bash fish)
    execute_process(COMMAND \"$<TARGET_FILE:pergola>\" completion \${shell} COMMAND_ERROR_IS_FATAL ANY
                    OUTPUT_FILE \"${CMAKE_BINARY_DIR}/completion.\${shell}\")
  endforeach()")
install(FILES "${CMAKE_BINARY_DIR}/completion.bash" RENAME pergola
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${CMAKE_BINARY_DIR}/completion.fish" RENAME pergola.fish
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/deploy/systemd/" DESTINATION lib/systemd/system)
install(FILES README.md CHANGELOG.md DESTINATION "${docs}")
install(FILES LICENSE RENAME copyright DESTINATION "${docs}")
install(DIRECTORY docs/ DESTINATION "${docs}/docs")
install(DIRECTORY deploy/examples deploy/grafana deploy/prometheus deploy/kubernetes DESTINATION "${docs}")

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME pergola)
set(CPACK_PACKAGE_VENDOR Pergola)
set(CPACK_PACKAGE_CONTACT "The Pergola authors")
set(CPACK_PACKAGE_FILE_NAME "pergola_${PROJECT_VERSION}_linux_${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CMAKE_SOURCE_DIR}/deploy/package/postinst"
                                       "${CMAKE_SOURCE_DIR}/deploy/package/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEB_PACKAGE_COMPONENT OFF)
include(CPack)
