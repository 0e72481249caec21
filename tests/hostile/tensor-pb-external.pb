j
location/etc/passwdpBx