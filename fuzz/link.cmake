space_fuzz(link_sanitize SOURCES link_sanitize_fuzz.cc DEPS link)
space_fuzz(link_qmp SOURCES link_qmp_fuzz.cc DEPS link)
