# A file of named tensors is recognized by its contents, not by its name.
cp models/masks.pth masks
pare inspect --weights masks
pare inspect models/add_in.npz
pare inspect --json models/masks.pth
