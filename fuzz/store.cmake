# Decoders of the snapshot store: what a rotten or hostile disk, or an imported file, can give them.
space_fuzz(store_pack SOURCES store_pack_fuzz.cc DEPS imager/store)
space_fuzz(store_node SOURCES store_node_fuzz.cc DEPS imager/store)
space_fuzz(store_record SOURCES store_record_fuzz.cc DEPS imager/store)
space_fuzz(store_export SOURCES store_export_fuzz.cc DEPS imager/store)
