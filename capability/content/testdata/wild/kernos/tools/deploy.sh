#!/bin/sh
echo "Deploys"
